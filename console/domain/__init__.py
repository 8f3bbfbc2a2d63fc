"""The words of the house: frozen dataclasses and units; standard library only, no I/O."""
