"""From the files of a commit to the desired manifests. No input or output happens here."""
