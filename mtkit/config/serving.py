"""What `mtkit serve` reads: which models to serve, where, to whom, and within which limits."""

import socket
from ipaddress import ip_address
from typing import Literal, Self

from pydantic import Field, model_validator

from mtkit.config.section import ConfigPath, Section


class LimitsConfig(Section):
    """What one request, and one caller, may ask for. Whatever exceeds a limit is refused at once, with its name."""

    max_chars: int = Field(10_000, ge=1, description="characters of one text")
    max_texts: int = Field(50, ge=1, description="texts in one request; together they have at most 10 * max_chars")
    max_alternatives: int = Field(4, ge=0, description="further translations of each text")
    max_file_mb: float = Field(10, gt=0, description="megabytes of one document")
    max_terms: int = Field(1_000, ge=0, description="terms of one request's terminology, or of one glossary")
    requests_per_minute: int | None = Field(
        None, ge=1, description="requests of one key, or of one address without a key; null: any number"
    )
    deadline_s: float = Field(30, gt=0, le=600, description="seconds until a request is answered, if need be by 504")
    document_deadline_s: float = Field(1_800, gt=0, description="seconds that one document may take")
    max_documents: int = Field(100, ge=1, description="documents kept at a time, waiting and done together")


class QueueConfig(Section):
    """How sentences wait and are put into batches."""

    max_sentences: int = Field(512, ge=1, description="sentences that wait; beyond them requests are refused by 503")
    batch_tokens: int = Field(
        512, ge=1, description="tokens in one batch, estimated by 4 characters each; short requests wait for a batch"
    )


class KeysConfig(Section):
    """Who may ask."""

    file: ConfigPath | None = Field(None, description="file of hashed API keys, which `mtkit keys` writes")
    required: bool = Field(False, description="refuse requests without a key")
    metrics: str | None = Field(
        None, description="name of the key that may read /metrics, as a bearer token; null: everyone may"
    )

    @model_validator(mode="after")
    def _keys_are_somewhere(self) -> Self:
        if self.file is None and (self.required or self.metrics):
            needs = "required=true" if self.required else f"metrics={self.metrics}"
            raise ValueError(f"{needs} needs file, with the keys: make it with `mtkit keys add`")
        return self


class KeyEntry(Section):
    """A key of the file, without the key itself."""

    name: str = Field(pattern=r"^[\w.@+-]{1,64}$", description="whose key it is")
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$", description="the key's checksum")
    created: str = Field("", description="day on which it was made")
    requests_per_minute: int | None = Field(None, ge=1, description="instead of limits.requests_per_minute")
    max_chars: int | None = Field(None, ge=1, description="instead of limits.max_chars")


class KeyFile(Section):
    """What is in a file of keys."""

    keys: list[KeyEntry] = Field([], description="the keys that are valid")

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [key.name for key in self.keys]
        if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
            raise ValueError(f"the name {twice[0]} has more than one key")
        return self


class CorrectionsConfig(Section):
    """Corrections that users suggest."""

    file: ConfigPath | None = Field(None, description="SQLite file that keeps them; null: none are taken")
    apply: Literal["vetted", "accepted"] = Field(
        "vetted",
        description="act as exact matches once they pass the checks (for the caller who gave them), or only once "
        "`mtkit corrections accept` has accepted them (for all)",
    )


class ServeConfig(Section):
    """All settings of a service."""

    models: list[ConfigPath] = Field([], description="run or bundle folders; default: the newest run in ./runs")
    host: str = Field("127.0.0.1", min_length=1, description="address to listen on; 0.0.0.0: all of this machine's")
    port: int = Field(5000, ge=0, le=65_535, description="port to listen on; 0: any free one")
    workers: int | None = Field(
        None, ge=1, le=256, description="processes that translate, each with one thread; default: one for each core"
    )
    memory_mb: int | None = Field(
        None, ge=1, description="memory for loaded models, all workers together; null: all models stay loaded"
    )
    decode: dict[str, str | int | float | bool | None] = Field(
        {}, description="keys of the models' decode section to change, such as {beam_size: 1}"
    )
    limits: LimitsConfig = Field(LimitsConfig(), description="what one request, and one caller, may ask for")
    queue: QueueConfig = Field(QueueConfig(), description="how sentences wait and are put into batches")
    keys: KeysConfig = Field(KeysConfig(), description="who may ask")
    corrections: CorrectionsConfig = Field(CorrectionsConfig(), description="corrections that users suggest")
    glossaries: ConfigPath | None = Field(
        None, description="SQLite file that keeps the glossaries of DeepL's dialect; null: none are taken"
    )
    cors: list[str] = Field(
        [], description="origins whose pages may call the service from a browser, such as https://example.org; or '*'"
    )
    hosts: list[str] = Field(
        [],
        description="names that clients call the service by, besides localhost and addresses; others are refused, as a "
        "page that redirects its own name to this machine would use one. '*', or none and a host that is not this "
        "machine alone: any name",
    )
    proxies: list[str] = Field(
        [], description="addresses or networks of reverse proxies, whose X-Forwarded-For and -Proto headers count"
    )
    page: bool = Field(True, description="serve the page for people at /")
    log_text: bool = Field(False, description="write texts and translations to the log")

    @property
    def is_local(self) -> bool:
        """Whether nothing but programs of this machine can reach the service, unless a proxy lets others in."""
        try:
            found = socket.getaddrinfo(self.host, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):  # it cannot be listened to, either
            return False
        return all(ip_address(str(address[0]).partition("%")[0]).is_loopback for *_, address in found)
