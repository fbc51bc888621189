"""What a prompt says: templates, model formats, programs and prompters. Pure: no files, no network, no clock."""
