package ibidhttp

import (
	"io"
	"os"
)

// spool holds an answer that is too large to be recorded, until the record says
// so and its only caller gets it. The file has no name where the system
// allows that, so that nothing is left behind by a process that dies.
type spool struct {
	file *os.File
	size int64
}

func newSpool(dir string, begin []byte) (*spool, error) {
	f, err := os.CreateTemp(dir, "ibid-answer-*")
	if err != nil {
		return nil, err
	}
	s := &spool{file: f}
	os.Remove(f.Name()) // where an open file keeps its name, close removes it
	if _, err := s.Write(begin); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// Write implements io.Writer.
func (s *spool) Write(p []byte) (int, error) {
	n, err := s.file.Write(p)
	s.size += int64(n)
	return n, err
}

// send writes what was spooled to w.
func (s *spool) send(w io.Writer) error {
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	_, err := io.Copy(w, s.file)
	return err
}

func (s *spool) close() {
	s.file.Close()           // nothing of it is needed any more
	os.Remove(s.file.Name()) // gone already where that was possible
}
