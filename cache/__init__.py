"""Hold bytes nearer to where they are used."""
