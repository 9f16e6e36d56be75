"""What a run consists of: training, searching, judging."""
