"""Duplicate pictures: finding them, choosing the copy to keep, remembering decisions, moving the others to the trash.

    from isch.describe.images import decode
    from isch.photos.fingerprint import FINGERPRINT, VERSION, fingerprint_of
    from isch.photos.matching import find_matches
    from isch.photos.groups import group_matches

    record = fingerprint_of(decode(path, side=224))          # record.tobytes(), np.frombuffer(blobs, FINGERPRINT)
    matches = find_matches(fingerprints, vectors)            # all pairs of copies; vectors of the network, or None
    groups = group_matches(matches, n, closeness="same")     # again for another setting: it takes no search
    groups[0].rows, groups[0].diameter

``closeness`` is "identical" (the same pixels), "same" (the same picture: resized, recompressed, in another format) or
"altered" (cropped, filtered, framed, mirrored, a screenshot of it): ``matching.SETTINGS``, ``matching.DEFAULT``.
Fingerprints kept with another ``VERSION`` must be made again. Exact duplicates need no fingerprint:
``exact.content_hash(path)``, ``exact.same(hashes)``, ``exact.same_pixels(a, b)``.

    from isch.photos.rules import Copy, keep                 # keep(copies, ["folder", "original"], folders=[...]).index
    from isch.photos.decisions import Decisions              # .not_duplicates, .keep_all, .keep_one, .forget, .among
    from isch.photos.trash import Listed, Removal, Trash     # .discard and .undo: one Outcome for each file

Decisions speak of content hashes; ``group_matches(..., apart=pairs of rows)`` takes those that are not duplicates.
"""
