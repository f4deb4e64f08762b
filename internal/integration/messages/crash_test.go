package messages

func crashed() bool { return false }
