"""An audit: a run whose configuration the tool chooses, within a budget of time, and a verdict that can be defended."""
