package jsonbody

import (
	"fmt"
	"strconv"
	"strings"
)

// Pointer is a JSON pointer (RFC 6901), as its reference tokens.
type Pointer []string

// ParsePointer reads a pointer: "", or tokens that each begin with "/", in which "~1"
// stands for "/" and "~0" for "~".
func ParsePointer(s string) (Pointer, error) {
	if s == "" {
		return Pointer{}, nil
	}
	if s[0] != '/' {
		return nil, fmt.Errorf("JSON pointer %q does not begin with a slash", s)
	}
	p := Pointer(strings.Split(s[1:], "/"))
	for i, token := range p {
		rest := strings.NewReplacer("~0", "", "~1", "").Replace(token)
		if strings.Contains(rest, "~") {
			return nil, fmt.Errorf("JSON pointer %q has a ~ that is neither ~0 nor ~1", s)
		}
		p[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
	}
	return p, nil
}

// find returns what p points at in n; nil when there is nothing.
func (n *node) find(p Pointer) *node {
	for _, token := range p {
		i := n.index(token)
		if i < 0 {
			return nil
		}
		n = &n.members[i]
	}
	return n
}

func (n *node) index(token string) int {
	switch n.kind {
	case kindObject:
		for i, name := range n.names {
			if name == token {
				return i
			}
		}
	case kindArray:
		i, err := strconv.Atoi(token)
		if err == nil && i >= 0 && i < len(n.members) && strconv.Itoa(i) == token {
			return i
		}
	}
	return -1
}

// String returns the string that p points at in body. It is ErrInvalid when
// the body is, or when something other than a string is there.
func String(body []byte, p Pointer) (s string, found bool, err error) {
	n, err := parse(body)
	if err != nil {
		return "", false, err
	}
	at := n.find(p)
	switch {
	case at == nil:
		return "", false, nil
	case at.kind != kindString:
		return "", false, fmt.Errorf("%w: the member that is the key is no string", ErrInvalid)
	}
	return at.text, true, nil
}

// AppendCanonical appends a form of body to dst in which the order of members, white
// space and escaping no longer show, and number literals stay as written. With
// include, only what these pointers point at shows; what exclude points at does not
// show.
func AppendCanonical(dst, body []byte, include, exclude []Pointer) ([]byte, error) {
	n, err := parse(body)
	if err != nil {
		return dst, err
	}
	if include == nil {
		return n.append(dst, exclude), nil
	}
	for i, p := range include {
		// Different bodies must not look alike because one part of one equals
		// another part of the other: each part is named by its place in the list.
		dst = strconv.AppendInt(dst, int64(i), 10)
		if at := n.find(p); at != nil {
			dst = append(dst, '=')
			dst = at.append(dst, below(exclude, p))
		}
		dst = append(dst, ';')
	}
	return dst, nil
}

// below returns what is left of the pointers that begin with prefix.
func below(pointers []Pointer, prefix Pointer) []Pointer {
	for _, token := range prefix {
		pointers = descend(pointers, token)
	}
	return pointers
}

func descend(pointers []Pointer, token string) []Pointer {
	var out []Pointer
	for _, p := range pointers {
		if len(p) > 0 && p[0] == token {
			out = append(out, p[1:])
		}
	}
	return out
}

func excluded(pointers []Pointer) bool {
	for _, p := range pointers {
		if len(p) == 0 {
			return true
		}
	}
	return false
}

func (n *node) append(dst []byte, exclude []Pointer) []byte {
	if excluded(exclude) {
		return append(dst, '_')
	}
	switch n.kind {
	case kindLiteral:
		return append(dst, n.text...)
	case kindString:
		return appendString(dst, n.text)
	case kindArray:
		// An excluded element leaves its place behind.
		dst = append(dst, '[')
		for i := range n.members {
			if i > 0 {
				dst = append(dst, ',')
			}
			var inner []Pointer
			if len(exclude) > 0 {
				inner = descend(exclude, strconv.Itoa(i))
			}
			dst = n.members[i].append(dst, inner)
		}
		return append(dst, ']')
	}
	dst = append(dst, '{')
	for i := range n.members {
		inner := descend(exclude, n.names[i])
		if excluded(inner) {
			continue
		}
		dst = appendString(dst, n.names[i])
		dst = append(dst, ':')
		dst = n.members[i].append(dst, inner)
		dst = append(dst, ',')
	}
	return append(dst, '}')
}

func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := range len(s) {
		if c := s[i]; c == '"' || c == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, s[i])
	}
	return append(dst, '"')
}
