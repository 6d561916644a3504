"""What every program of this project runs on: files, watches of directories, and caches."""
