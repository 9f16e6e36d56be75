"""Series: several runs that differ in a few settings, as one configuration, one command and one folder."""
