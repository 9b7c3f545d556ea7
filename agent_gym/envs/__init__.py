"""The bundled environments, one package each."""
