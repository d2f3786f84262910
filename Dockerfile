# The image for people with Docker. `make image` makes the same one without it, and reproducibly; image/README.md
# describes both.
#
#   docker build -t shardctl:dev \
#     --build-arg VERSION="$(git describe --tags --always --dirty)" --build-arg REVISION="$(git rev-parse HEAD)" \
#     --build-arg CREATED="$(TZ=UTC0 git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%cd)" .

ARG GO_VERSION=1.26

FROM --platform=$BUILDPLATFORM golang:${GO_VERSION} AS build
ARG TARGETPLATFORM
ARG VERSION=dev
ARG REVISION=unknown
# Docker sets it when the caller's environment has it; here it dates nothing that is copied below.
ARG SOURCE_DATE_EPOCH=0
WORKDIR /src
COPY . .
# The same program that makes the image without Docker writes its files: there is one list of them.
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build \
    go -C image run . rootfs --to /rootfs --platform "$TARGETPLATFORM" --version "$VERSION" --revision "$REVISION"

FROM scratch
ARG VERSION=dev
ARG REVISION=unknown
ARG CREATED=1970-01-01T00:00:00Z
LABEL org.opencontainers.image.title="shardctl" \
      org.opencontainers.image.description="Runs each of many named tasks on exactly one of several replicas" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}" \
      org.opencontainers.image.created="${CREATED}" \
      org.opencontainers.image.source="https://github.com/shardctl/shardctl" \
      org.opencontainers.image.url="https://github.com/shardctl/shardctl" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /rootfs/ /
# A number, so that Kubernetes can see that it is not root.
USER 65532:65532
WORKDIR /
EXPOSE 8080
ENTRYPOINT ["/shardctl"]
