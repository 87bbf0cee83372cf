"""Points: from depth images, and samples of point clouds."""
