"""From the bytes of a picture to 8-bit RGB, at a bounded cost, whoever made the file.

``formats`` lists what is read and recognises it; ``opening`` opens a file with exactly one reader, behind limits that
are checked before anything is decoded; ``pixels`` turns what was opened into RGB; ``raw`` reads camera RAW; ``facts``
tells size, date and camera without decoding; ``jpeg`` and ``tiff`` read just enough of those two formats for that.
"""
