"""Voxelization: points in, dense grids or sparse voxels out."""
