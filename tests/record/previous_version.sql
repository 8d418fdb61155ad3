BEGIN TRANSACTION;
CREATE TABLE advice (
	id INTEGER NOT NULL, 
	digest VARCHAR(64) NOT NULL, 
	asked VARCHAR(64) NOT NULL, 
	body TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "advice" VALUES(1,'dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd','asked','["tiny adds: fine","Moderate","why"]');
CREATE TABLE audit (
	id INTEGER NOT NULL, 
	application VARCHAR(512) NOT NULL, 
	sync VARCHAR(64) NOT NULL, 
	action VARCHAR(32) NOT NULL, 
	resource VARCHAR(1024) NOT NULL, 
	outcome VARCHAR(16) NOT NULL, 
	body TEXT NOT NULL, 
	previous VARCHAR(64) NOT NULL, 
	hash VARCHAR(64) NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "audit" VALUES(1,'gitsync/shop','','approve','','Succeeded','{"action":"approve","application":"gitsync/shop","approver":"","author":"","commit":"","details":{},"digest":"","duration_ms":0,"message":"","outcome":"Succeeded","plan_steps":0,"reasoning":"","resource":"","risk_level":"","sync":"","timestamp":"2026-11-20T12:00:00.123456Z"}','0000000000000000000000000000000000000000000000000000000000000000','0dad2d933c25d886feb2eeb07030273dd4c44d989f5e03330c4a88ccfb4ace41');
INSERT INTO "audit" VALUES(2,'gitsync/shop','s1','update','apps/Deployment/shop/web','Intended','{"action":"update","application":"gitsync/shop","approver":"Grace","author":"Ada","commit":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","details":{"differences":[{"desired":null,"live":1,"path":".spec.replicas"}]},"digest":"dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd","duration_ms":0,"message":"","outcome":"Intended","plan_steps":2,"reasoning":"image","resource":"apps/Deployment/shop/web","risk_level":"Moderate","sync":"s1","timestamp":"2026-11-20T12:00:00.123456Z"}','0dad2d933c25d886feb2eeb07030273dd4c44d989f5e03330c4a88ccfb4ace41','15a3f732acc2e209bbc19f1f76ab8da25ed7f65a4b72f9c67241cffe528f71d2');
INSERT INTO "audit" VALUES(3,'gitsync/shop','s1','update','apps/Deployment/shop/web','Succeeded','{"action":"update","application":"gitsync/shop","approver":"Grace","author":"Ada","commit":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","details":{"differences":[{"desired":null,"live":1,"path":".spec.replicas"}]},"digest":"dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd","duration_ms":12,"message":"","outcome":"Succeeded","plan_steps":2,"reasoning":"image","resource":"apps/Deployment/shop/web","risk_level":"Moderate","sync":"s1","timestamp":"2026-11-20T12:00:00.123456Z"}','15a3f732acc2e209bbc19f1f76ab8da25ed7f65a4b72f9c67241cffe528f71d2','030f5c967bd3a4ceb28c863975caed035d8530241570531adf7ed10c48af164b');
INSERT INTO "audit" VALUES(4,'gitsync/shop','s1','create','/ConfigMap/shop/a','Intended','{"action":"create","application":"gitsync/shop","approver":"Grace","author":"Ada","commit":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","details":{"differences":[{"desired":null,"live":1,"path":".spec.replicas"}]},"digest":"dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd","duration_ms":0,"message":"","outcome":"Intended","plan_steps":2,"reasoning":"image","resource":"/ConfigMap/shop/a","risk_level":"Moderate","sync":"s1","timestamp":"2026-11-20T12:00:00.123456Z"}','030f5c967bd3a4ceb28c863975caed035d8530241570531adf7ed10c48af164b','710b7b64484bab61dae0bc680e8ebe889e48671b82f0a8d61eb933cc120e2a75');
CREATE TABLE chain (
	id INTEGER NOT NULL, 
	length INTEGER NOT NULL, 
	head VARCHAR(64) NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "chain" VALUES(1,4,'710b7b64484bab61dae0bc680e8ebe889e48671b82f0a8d61eb933cc120e2a75');
CREATE TABLE history (
	id INTEGER NOT NULL, 
	application VARCHAR(512) NOT NULL, 
	body TEXT NOT NULL, 
	PRIMARY KEY (id)
);
INSERT INTO "history" VALUES(1,'gitsync/shop','{"application":"gitsync/shop","approver":"Grace","commit":{"author":"Ada","email":"ada@example.test","id":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa","message":"Raise the image\n\nbody","time":"2026-11-20T14:00:00.123456+02:00"},"digest":"dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd","duration_ms":42,"explanation":"Update 1 object.","initiator":"grace","message":"1 failed","outcome":"Partial","risk":"Moderate","started":"2026-11-20T12:00:00.123456Z","steps":[{"action":"update","differences":[{"desired":2.5,"kind":"changed","live":1,"path":".spec.replicas"}],"message":"","outcome":"Succeeded","reason":"image","ref":"apps/Deployment/shop/web","risk":"Moderate"},{"action":"create","differences":[],"message":"Forbidden","outcome":"Failed","reason":"new","ref":"/ConfigMap/shop/a","risk":"Safe"}],"trigger":"commit"}');
INSERT INTO "history" VALUES(2,'gitsync/shop','{"application":"gitsync/shop","approver":"","commit":{"author":"","email":"","id":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb","message":"","time":null},"digest":"","duration_ms":0,"explanation":"","initiator":"automated","message":"","outcome":"Succeeded","risk":"Safe","started":"2026-11-20T12:01:00.123456Z","steps":[],"trigger":"drift"}');
CREATE TABLE reviews (
	application VARCHAR(512) NOT NULL, 
	digest VARCHAR(64) NOT NULL, 
	approves INTEGER NOT NULL, 
	reviewer VARCHAR(256) NOT NULL, 
	groups TEXT NOT NULL, 
	is_known INTEGER NOT NULL, 
	reason TEXT NOT NULL, 
	until VARCHAR(40) NOT NULL, 
	sync VARCHAR(64) NOT NULL, 
	PRIMARY KEY (application, digest)
);
INSERT INTO "reviews" VALUES('gitsync/shop','dddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd',1,'Grace','["platform"]',1,'','2026-11-21T12:00:00.123456+00:00','s1');
CREATE INDEX history_application ON history (application, id);
CREATE INDEX audit_outcome ON audit (outcome, sync);
CREATE INDEX audit_application ON audit (application, id);
CREATE INDEX audit_sync ON audit (sync, resource, action);
CREATE UNIQUE INDEX advice_of ON advice (digest, asked);
COMMIT;
