# Makes this folder a package to Cython alone: Python never imports from it.
