"""ApplicationSet: elements of generators and files of Git in, Applications out. Pure."""
