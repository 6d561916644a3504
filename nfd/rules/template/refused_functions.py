"""Functions of Sprig that a rule may not call, and why; a template that names one fails."""

from __future__ import annotations

from collections.abc import Mapping

_RANDOM = "uuidv4 randAlpha randAlphaNum randNumeric randAscii randBytes randInt shuffle"
_SECRETS = (
    "bcrypt htpasswd genPrivateKey derivePassword buildCustomCert genCA genCAWithKey genSelfSignedCert "
    "genSelfSignedCertWithKey genSignedCert genSignedCertWithKey encryptAES decryptAES"
)

REFUSED: Mapping[str, str] = {
    **dict.fromkeys(_RANDOM.split(), "gives another value each time, and a label must stay as it is"),
    **dict.fromkeys(_SECRETS.split(), "makes keys or passwords, which are not made in rules"),
}

NO_TIME = "only the worker's own rules may read the present time, since a label made of it changes by itself"
"""Why `now` fails in a NodeFeatureRule."""
