"""What a broker counts, cheap enough to be left on."""
