"""SHA-crypt: the password hashes ``$5$`` and ``$6$`` of ``/etc/shadow``.

A rescue password reaches the ramdisk only in this form.

Source: U. Drepper, "Unix crypt using SHA-256 and SHA-512", version 0.6.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass

ROUNDS = 5000
_MOST_ROUNDS = 999_999_999
_FEWEST_ROUNDS = 1000
_MOST_SALT = 16
_ALPHABET = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class _Scheme:
    """One of the two forms: prefix, digest, and the order of the output bytes."""

    prefix: str
    digest: str
    triples: tuple[tuple[int, int, int], ...]
    rest: tuple[int, ...]


_SCHEMES = {
    "sha256": _Scheme(
        "5",
        "sha256",
        (
            (0, 10, 20),
            (21, 1, 11),
            (12, 22, 2),
            (3, 13, 23),
            (24, 4, 14),
            (15, 25, 5),
            (6, 16, 26),
            (27, 7, 17),
            (18, 28, 8),
            (9, 19, 29),
        ),
        (31, 30),
    ),
    "sha512": _Scheme(
        "6",
        "sha512",
        (
            (0, 21, 42),
            (22, 43, 1),
            (44, 2, 23),
            (3, 24, 45),
            (25, 46, 4),
            (47, 5, 26),
            (6, 27, 48),
            (28, 49, 7),
            (50, 8, 29),
            (9, 30, 51),
            (31, 52, 10),
            (53, 11, 32),
            (12, 33, 54),
            (34, 55, 13),
            (56, 14, 35),
            (15, 36, 57),
            (37, 58, 16),
            (59, 17, 38),
            (18, 39, 60),
            (40, 61, 19),
            (62, 20, 41),
        ),
        (63,),
    ),
}


def _repeat(data: bytes, length: int) -> bytes:
    return (data * (length // len(data) + 1))[:length] if data else b""


def _digest(scheme: _Scheme, password: bytes, salt: bytes, rounds: int) -> bytes:
    def hashed(*parts: bytes) -> bytes:
        return hashlib.new(scheme.digest, b"".join(parts)).digest()

    b = hashed(password, salt, password)
    parts = [password, salt, _repeat(b, len(password))]
    bits = len(password)
    while bits:
        parts.append(b if bits & 1 else password)
        bits >>= 1
    a = hashed(*parts)
    p = _repeat(hashed(password * len(password)), len(password))
    s = _repeat(hashed(salt * (16 + a[0])), len(salt))
    for turn in range(rounds):
        parts = [p if turn & 1 else a]
        if turn % 3:
            parts.append(s)
        if turn % 7:
            parts.append(p)
        parts.append(a if turn & 1 else p)
        a = hashed(*parts)
    return a


def _encode(value: int, length: int) -> str:
    text = ""
    for _ in range(length):
        text += _ALPHABET[value & 63]
        value >>= 6
    return text


def crypt(
    password: str, algorithm: str = "sha256", *, salt: str | None = None, rounds: int = ROUNDS
) -> str:
    """Hash a password.

    :param algorithm: ``sha256`` or ``sha512``.
    :param salt: up to 16 characters of ``./0-9A-Za-z``; random when None.
    :param rounds: work factor, 1000 to 999,999,999; shown in the hash unless 5000.
    """
    scheme = _SCHEMES[algorithm]
    if salt is None:
        salt = "".join(secrets.choice(_ALPHABET) for _ in range(_MOST_SALT))
    salt = salt[:_MOST_SALT]
    rounds = min(max(rounds, _FEWEST_ROUNDS), _MOST_ROUNDS)
    raw = _digest(scheme, password.encode(), salt.encode(), rounds)
    text = "".join(_encode(raw[x] << 16 | raw[y] << 8 | raw[z], 4) for x, y, z in scheme.triples)
    last = 0
    for index in scheme.rest:
        last = last << 8 | raw[index]
    text += _encode(last, len(scheme.rest) + 1)
    shown = "" if rounds == ROUNDS else f"rounds={rounds}$"
    return f"${scheme.prefix}${shown}{salt}${text}"
