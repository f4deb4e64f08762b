package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// copyTree copies the files of the repository at root that git tracks, or
// would track, as they stand now. Where git has no answer every file is
// copied, except under names that begin with a dot.
func copyTree(ctx context.Context, root, to string) error {
	names, err := tracked(ctx, root)
	if err != nil {
		if names, err = walked(root); err != nil {
			return err
		}
	}
	for _, name := range names {
		if err := copyFile(filepath.Join(root, name), filepath.Join(to, name)); err != nil {
			return err
		}
	}
	return nil
}

func tracked(ctx context.Context, root string) ([]string, error) {
	git := exec.CommandContext(ctx, "git", "-C", root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	out, err := git.Output()
	if err != nil {
		return nil, err
	}
	var names []string
	for name := range bytes.SplitSeq(out, []byte{0}) {
		if len(name) > 0 {
			names = append(names, filepath.FromSlash(string(name)))
		}
	}
	if len(names) == 0 {
		return nil, errors.New("git lists no file")
	}
	return names, nil
}

func walked(root string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case path != root && strings.HasPrefix(entry.Name(), "."):
			if entry.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case entry.IsDir():
			return nil
		}
		name, err := filepath.Rel(root, path)
		names = append(names, name)
		return err
	})
	return names, err
}

// copyFile copies a regular file with its permissions. A name that git still
// lists but that was deleted, and anything that is no regular file, is left out.
func copyFile(from, to string) error {
	info, err := os.Lstat(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || !info.Mode().IsRegular() {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, info.Mode().Perm()|0o200)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
