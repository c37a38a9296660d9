"""Checksums and the files that publish them (field case 76)."""

from __future__ import annotations

import pytest

from ironic_rs.domain import errors
from ironic_rs.images import checksum

MD5 = "d41d8cd98f00b204e9800998ecf8427e"
SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
SHA512 = SHA256 * 2
OTHER = SHA256[::-1]
PGP = f"""-----BEGIN PGP SIGNED MESSAGE-----
Hash: SHA256

{OTHER}  other.img
{SHA256}  image.img
-----BEGIN PGP SIGNATURE-----

iQEzBAEBCAAdFiEE
=abcd
-----END PGP SIGNATURE-----
"""


@pytest.mark.parametrize(
    "text",
    [
        SHA256,
        f"{SHA256}\n",
        f"# made by hand\n{SHA256}\n",
        f"{SHA256}  image.img",
        f"{SHA256} *image.img",
        f"{SHA256}  ./mirror/image.img",
        f"SHA256 (image.img) = {SHA256}",
        f"SHA256 (pool/image.img) = {SHA256}",
        f"SHA2-256(image.img)= {SHA256}",
        f"{OTHER}  other.img\r\n{SHA256}  image.img\r\n",
        f"# comment\n{OTHER}  other.img\n{SHA256}  image.img\n",
        f"{MD5}  image.img\n{SHA256}  image.img\n",
        PGP,
    ],
)
def test_what_people_publish_is_understood(text):
    assert checksum.find(text, "image.img") == SHA256


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<html><body>Not here</body></html>",
        f"{OTHER}  other.img\n",
        f"{SHA256}\n{OTHER}\n",
        "deadbeef  image.img",
        f"{SHA256}  image.img.asc",
    ],
)
def test_what_does_not_name_the_image_is_not_used(text):
    assert checksum.find(text, "image.img") is None


def test_a_checksum_file_is_fetched(server):
    url = server.put("/SHA256SUMS", f"{SHA256}  image.img\n".encode())
    found = checksum.from_file(url, "https://mirror/a/image.img?x=y")
    assert found == ("sha256", SHA256)


def test_a_mark_of_the_byte_order_is_passed_over(server):
    url = server.put("/SHA256SUMS", f"\ufeff{SHA256}  image.img\n".encode())
    assert checksum.from_file(url, "https://mirror/image.img").value == SHA256


@pytest.mark.parametrize(
    ("page", "match"),
    [
        ({"body": b"<html>"}, "no md5, sha256 or sha512 digest of 'image.img'"),
        ({"status": 404}, "404"),
        ({"body": b"\xff\xfe\x00"}, "can not be read"),
        ({"body": b"x" * 2_000_000}, "larger than"),
    ],
)
def test_a_bad_checksum_file_is_named(server, page, match):
    url = server.put("/SHA256SUMS", **page)
    with pytest.raises(errors.ImageChecksumError, match=match) as caught:
        checksum.from_file(url, "http://mirror/image.img")
    assert "/SHA256SUMS" in str(caught.value)


def test_checksum_files_can_be_forbidden(server, config):
    config("conductor", disable_support_for_checksum_files=True)
    with pytest.raises(errors.ImageChecksumError, match="not allowed"):
        checksum.from_file(server.url + "/sums", "http://mirror/image.img")
    assert server.requests == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (MD5, ("md5", MD5)),
        (SHA256.upper(), ("sha256", SHA256)),
        (SHA512, ("sha512", SHA512)),
        (f"sha512:{SHA512}", ("sha512", SHA512)),
        ("SHA-1:abc", ("sha1", "abc")),
    ],
)
def test_the_algorithm_is_given_or_told_by_the_length(config, text, expected):
    assert checksum.parse(text) == expected


@pytest.mark.parametrize("text", ["", "xyz", SHA256[:-1], "z" * 64, "rot13:abc", "shake_128:abc"])
def test_what_is_no_digest_is_refused(config, text):
    with pytest.raises(errors.ImageChecksumError):
        checksum.parse(text)


def test_md5_can_be_forbidden(config):
    config("agent", allow_md5_checksum=False)
    with pytest.raises(errors.ImageChecksumError, match="md5"):
        checksum.parse(MD5)


def test_hash_algorithm_and_value_win_over_image_checksum(config):
    info = {
        "image_os_hash_algo": "sha512",
        "image_os_hash_value": SHA512,
        "image_checksum": MD5,
    }
    assert checksum.of_instance(info, "x") == ("sha512", SHA512)
    assert checksum.of_instance({}, "x") is None
