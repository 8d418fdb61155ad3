# syntax=docker/dockerfile:1
# By digest, so that a build has what was reviewed; `docker buildx imagetools inspect python:3.12-slim` has a newer one.
FROM python:3.12-slim@sha256:78387bc3881b8273120a12ebe6c1ab22b018ccc2c9adf565ae1ac9b536e184ea AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE requirements-image.txt requirements-build.txt ./
COPY gitsync ./gitsync
COPY web ./web
COPY manifests ./manifests
COPY overlays ./overlays
COPY tools/make_image_root.sh ./tools/
# tests/image runs the same folder without a container engine.
RUN --mount=type=cache,target=/root/.cache/pip sh tools/make_image_root.sh /opt/gitsync

FROM python:3.12-slim@sha256:78387bc3881b8273120a12ebe6c1ab22b018ccc2c9adf565ae1ac9b536e184ea
RUN apt-get update \
 && apt-get install --yes --no-install-recommends git gnupg openssh-client \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin gitsync \
 && install -d -o 10001 -g 10001 /data
COPY --from=build /opt/gitsync /opt/gitsync
ENV PATH=/opt/gitsync/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 GITSYNC_DATA=/data
# Run with a read-only root: only /data is written, and /tmp, which may be a tmpfs.
USER 10001:10001
VOLUME /data
EXPOSE 8080
HEALTHCHECK --interval=15s --timeout=3s --start-period=20s \
  CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8080/healthz', timeout=2)"]
ENTRYPOINT ["gitsync"]
# Off loopback the dashboard wants a token: GITSYNC_WEB_TOKEN.
CMD ["run", "--host", "0.0.0.0"]
