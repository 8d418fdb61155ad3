# syntax=docker/dockerfile:1
FROM python:3.12-slim AS build
WORKDIR /src
COPY requirements.txt requirements-build.txt ./
RUN python -m venv /opt/build \
 && /opt/build/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements-build.txt \
 && python -m venv /opt/gitsync \
 && /opt/gitsync/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes -r requirements.txt
COPY pyproject.toml README.md LICENSE ./
COPY gitsync ./gitsync
COPY web ./web
COPY manifests ./manifests
COPY overlays ./overlays
RUN /opt/build/bin/python -m hatchling build -t wheel -d /tmp/wheel \
 && /opt/gitsync/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps /tmp/wheel/*.whl

FROM python:3.12-slim
RUN apt-get update \
 && apt-get install --yes --no-install-recommends git openssh-client \
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
