"""Files and networks from anyone: read as numbers alone, checked before memory is asked for, described in words."""
