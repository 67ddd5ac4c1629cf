"""Everything that knows IPython, ipywidgets or comms."""
