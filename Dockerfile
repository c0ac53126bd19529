# Images of Drover, for amd64 and arm64. BuildKit builds them (the default of Docker since version 23).
#
#   docker build -t drover .                                        the services and the command line
#   docker build -t drover-agent --target agent .                   the agent, with what tasks need around it
#   docker buildx build --platform linux/amd64,linux/arm64 .        both architectures; the other one is cross-compiled
#   docker build --build-arg BINARY=prebuilt -f Dockerfile DIR      with the binary DIR/drover and its list of parts
#                                                                   DIR/sbom.cdx.json (.ci/sbom), without compiling
#   docker build --target debug-info --output DIR .                 DIR/drover.debug, for lines in backtraces of this build
#
# The list of parts (SBOM, CycloneDX) is in the image: /usr/share/drover/sbom.cdx.json. `docker buildx build --sbom=true`
# attaches the builder's own list to the image as well.

# Where the binary comes from: build or prebuilt.
ARG BINARY=build

# Compiles on the builder's own architecture, also for another one: emulation would take hours.
FROM --platform=$BUILDPLATFORM rust:1.95-bookworm AS build
ARG BUILDARCH
ARG TARGETARCH
# A profile of Cargo.toml: dist, or demo for a quick look.
ARG PROFILE=dist
WORKDIR /src
COPY . .
# Certificates of the builder's network can be given as the secret `ca`, where it has some of its own.
RUN --mount=type=secret,id=ca,target=/etc/ssl/certs/ca-certificates.crt \
    --mount=type=cache,id=drover-registry,target=/usr/local/cargo/registry \
    --mount=type=cache,id=drover-git,target=/usr/local/cargo/git \
    --mount=type=cache,id=drover-target-$TARGETARCH,target=/src/target,sharing=locked \
    .ci/image-build "${BUILDARCH:-$TARGETARCH}" "${TARGETARCH:-$BUILDARCH}" "$PROFILE" /out

FROM scratch AS binary-build
COPY --from=build /out/drover /out/sbom.cdx.json /

# The debug information, which no image has.
FROM scratch AS debug-info
COPY --from=build /out/drover.debug /

FROM scratch AS binary-prebuilt
COPY drover sbom.cdx.json /

# What COPY --from takes no variable for.
FROM binary-${BINARY} AS binary

# The file system of the services' image, below /image: nothing in it depends on the architecture but the binary.
FROM --platform=$BUILDPLATFORM debian:bookworm-slim AS files
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates tzdata \
    && rm -rf /var/lib/apt/lists/*
COPY --from=binary /drover /image/usr/local/bin/drover
COPY --from=binary /sbom.cdx.json /image/usr/share/drover/sbom.cdx.json
RUN set -eu; cd /image; \
    mkdir -p etc/ssl/certs usr/share run tmp; \
    chmod 0755 usr/local/bin/drover; chmod 1777 tmp; \
    cp /etc/ssl/certs/ca-certificates.crt etc/ssl/certs/; \
    cp -R /usr/share/zoneinfo usr/share/; \
    rm -rf usr/share/zoneinfo/right usr/share/zoneinfo/posix; \
    echo 'drover:x:65532:65532::/:/usr/sbin/nologin' >etc/passwd; \
    echo 'drover:x:65532:' >etc/group; \
    echo 'hosts: files dns' >etc/nsswitch.conf; \
    # A binary of the stage `build` is static. With one that is not, the libraries that it is linked to are copied.
    for library in $(ldd usr/local/bin/drover 2>/dev/null | grep -o '/[^ ]*'); do \
        mkdir -p ".$(dirname "$library")"; cp -L "$library" ".$library"; \
    done

# Machines that run tasks: a Debian, since plain processes (raw_exec) expect a shell and its tools.
FROM debian:bookworm-slim AS agent
RUN apt-get update \
    && apt-get install --yes --no-install-recommends ca-certificates tini tzdata \
    && rm -rf /var/lib/apt/lists/*
ARG SOURCE=
ARG REVISION=
ARG VERSION=0.0.0
ARG CREATED=
LABEL org.opencontainers.image.title="drover-agent" \
      org.opencontainers.image.description="The agent of Drover: runs tasks on a machine" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="$SOURCE" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.created="$CREATED"
COPY --from=files /image/usr/local/bin/drover /usr/local/bin/drover
COPY --from=files /image/usr/share/drover/ /usr/share/drover/
ENV DROVER_HEALTH_ADDR=0.0.0.0:4650
EXPOSE 4650
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=3s --start-period=60s --retries=3 CMD ["drover", "health"]
# Processes that tasks leave behind become children of the first process, which has to reap them.
ENTRYPOINT ["tini", "--", "drover"]
CMD ["agent"]

# The services and the command line: the binary, certificates, time zones.
FROM scratch AS server
ARG SOURCE=
ARG REVISION=
ARG VERSION=0.0.0
ARG CREATED=
LABEL org.opencontainers.image.title="drover" \
      org.opencontainers.image.description="Drover: a workload orchestrator, its services and its command line" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="$SOURCE" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.created="$CREATED"
COPY --from=files /image/ /
ENV PATH=/usr/local/bin \
    DROVER_HEALTH_ADDR=0.0.0.0:4650
USER 65532:65532
EXPOSE 4646 4650
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=5s --timeout=3s --start-period=60s --retries=3 CMD ["drover", "health"]
ENTRYPOINT ["drover"]
