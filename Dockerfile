# A reward server: docker build -t palate . && docker run --env PALATE_SERVE_TOKEN -p 8300:8300 palate --rm overlap
# EXTRAS=serve,local adds torch, for embeddings and language models in the container.
FROM python:3.12-slim
ARG EXTRAS=serve
WORKDIR /opt/palate
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir --constraint constraints.txt ".[${EXTRAS}]" \
    && useradd --create-home --uid 10001 palate
USER palate
WORKDIR /home/palate
EXPOSE 8300
# 0.0.0.0 is an address that others can reach, so the server does not start without PALATE_SERVE_TOKEN.
ENTRYPOINT ["palate", "serve", "--host", "0.0.0.0", "--port", "8300"]
