"""Reads dictionaries of structured fields (RFC 9651) with http-sf and prints a line each: `none` where it is not one or
empty, else `other` where max-age is no number or absent, else its seconds.

Standard input has one field value a line, in hexadecimal.
"""

import sys

import http_sf


def read(value):
    try:
        dictionary = http_sf.parse(value, tltype="dictionary")
    except http_sf.StructuredFieldError:
        return "none"
    if not dictionary:
        return "none"
    if "max-age" not in dictionary:
        return "other"
    value = dictionary["max-age"][0]
    return str(value) if type(value) is int else "none"


def main():
    for line in sys.stdin:
        print(read(bytes.fromhex(line.strip())))
    print("read")


main()
