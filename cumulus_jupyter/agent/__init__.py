"""The engine: loop, transcript, tools, windows. Standard library only; it knows neither Jupyter nor any vendor."""
