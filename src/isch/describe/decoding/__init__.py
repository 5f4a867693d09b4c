"""From the bytes of a picture to 8-bit RGB, at a bounded cost even if the file is crafted.

``formats`` lists the formats and recognises them. ``opening`` opens a file with exactly one reader, after checking
limits and before decoding anything. ``pixels`` turns an open picture into RGB, ``raw`` reads camera RAW, ``exif`` reads
date and camera. ``jpeg`` and ``tiff`` read the headers of those two formats. ``reader`` puts it all together.
"""
