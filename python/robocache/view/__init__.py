"""Pictures of episodes and of aligned tables by matplotlib, recordings for Rerun's viewer."""
