# The README's first line, in a container:
#   docker build --tag jgleak . && docker run --rm jgleak
# Files of one's own: docker run --rm --volume "$PWD:/home/jgleak" jgleak invert one.safetensors
FROM python:3.11-slim-bookworm

# RDKit draws with libraries of X that its wheel leaves to the system; no screen is needed.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --no-install-recommends --yes libexpat1 libx11-6 libxext6 libxrender1 \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 10001 jgleak

WORKDIR /source
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY jgleak jgleak
RUN pip install --no-cache-dir --constraint constraints.txt .

USER 10001
WORKDIR /home/jgleak
ENTRYPOINT ["jgleak"]
CMD ["attack"]
