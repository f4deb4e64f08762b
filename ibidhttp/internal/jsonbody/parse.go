// Package jsonbody reads JSON request bodies strictly: what two parsers could
// read differently is refused, so that two bodies are taken for the same only
// where every parser agrees.
package jsonbody

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxDepth bounds nesting.
const maxDepth = 500

// ErrInvalid reports a body that is not JSON, or that parsers may disagree
// about: duplicate members, bad UTF-8, half a surrogate pair. Its text is shown
// to callers and quotes nothing of the body.
var ErrInvalid = errors.New("the body is not usable JSON")

type kind uint8

const (
	kindLiteral kind = iota // null, true, false, and numbers as written
	kindString
	kindArray
	kindObject
)

// node is a value. Text is a literal, or what a string stands for.
type node struct {
	kind    kind
	text    string
	names   []string // of an object's members, in ascending order
	members []node   // of an array or, in the order of names, of an object
}

type parser struct {
	b   []byte
	pos int
}

func parse(b []byte) (node, error) {
	p := parser{b: b}
	n, err := p.value(0)
	if err != nil {
		return node{}, err
	}
	if p.space(); p.pos < len(b) {
		return node{}, p.fail("something follows the value")
	}
	return n, nil
}

func (p *parser) fail(what string) error {
	return fmt.Errorf("%w: %s at byte %d", ErrInvalid, what, p.pos)
}

func (p *parser) space() {
	for p.pos < len(p.b) && strings.IndexByte(" \t\r\n", p.b[p.pos]) >= 0 {
		p.pos++
	}
}

// next returns the first byte after white space, without taking it; 0 at the end.
func (p *parser) next() byte {
	if p.space(); p.pos < len(p.b) {
		return p.b[p.pos]
	}
	return 0
}

func (p *parser) value(depth int) (node, error) {
	if depth > maxDepth {
		return node{}, p.fail("too deeply nested")
	}
	switch c := p.next(); c {
	case '{':
		return p.object(depth)
	case '[':
		return p.array(depth)
	case '"':
		s, err := p.str()
		return node{kind: kindString, text: s}, err
	case 't', 'f', 'n':
		for _, word := range [...]string{"true", "false", "null"} {
			if strings.HasPrefix(string(p.b[p.pos:min(len(p.b), p.pos+5)]), word) {
				p.pos += len(word)
				return node{text: word}, nil
			}
		}
	default:
		if c == '-' || '0' <= c && c <= '9' {
			return p.number()
		}
	}
	return node{}, p.fail("no value")
}

func (p *parser) object(depth int) (node, error) {
	n := node{kind: kindObject}
	p.pos++
	if p.next() == '}' {
		p.pos++
		return n, nil
	}
	var order []int
	for {
		if p.next() != '"' {
			return n, p.fail("no member name")
		}
		name, err := p.str()
		if err != nil {
			return n, err
		}
		if p.next() != ':' {
			return n, p.fail("no colon")
		}
		p.pos++
		v, err := p.value(depth + 1)
		if err != nil {
			return n, err
		}
		order = append(order, len(order))
		n.names = append(n.names, name)
		n.members = append(n.members, v)
		c := p.next()
		p.pos++
		if c == '}' {
			break
		}
		if c != ',' {
			p.pos--
			return n, p.fail("no comma")
		}
	}
	slices.SortFunc(order, func(i, j int) int { return strings.Compare(n.names[i], n.names[j]) })
	sorted := node{kind: kindObject, names: make([]string, len(order)), members: make([]node, len(order))}
	for i, j := range order {
		sorted.names[i], sorted.members[i] = n.names[j], n.members[j]
		if i > 0 && sorted.names[i] == sorted.names[i-1] {
			return n, p.fail("an object with two members of one name ends")
		}
	}
	return sorted, nil
}

func (p *parser) array(depth int) (node, error) {
	n := node{kind: kindArray}
	p.pos++
	if p.next() == ']' {
		p.pos++
		return n, nil
	}
	for {
		v, err := p.value(depth + 1)
		if err != nil {
			return n, err
		}
		n.members = append(n.members, v)
		c := p.next()
		p.pos++
		if c == ']' {
			return n, nil
		}
		if c != ',' {
			p.pos--
			return n, p.fail("no comma")
		}
	}
}

func (p *parser) number() (node, error) {
	start := p.pos
	if p.b[p.pos] == '-' {
		p.pos++
	}
	switch {
	case p.pos < len(p.b) && p.b[p.pos] == '0':
		p.pos++
	case !p.digits():
		return node{}, p.fail("no number")
	}
	if p.pos < len(p.b) && p.b[p.pos] == '.' {
		if p.pos++; !p.digits() {
			return node{}, p.fail("no number")
		}
	}
	if p.pos < len(p.b) && p.b[p.pos]|0x20 == 'e' {
		if p.pos++; p.pos < len(p.b) && (p.b[p.pos] == '+' || p.b[p.pos] == '-') {
			p.pos++
		}
		if !p.digits() {
			return node{}, p.fail("no number")
		}
	}
	return node{text: string(p.b[start:p.pos])}, nil
}

func (p *parser) digits() bool {
	start := p.pos
	for p.pos < len(p.b) && '0' <= p.b[p.pos] && p.b[p.pos] <= '9' {
		p.pos++
	}
	return p.pos > start
}

func (p *parser) str() (string, error) {
	p.pos++
	var out []byte
	start := p.pos
	for p.pos < len(p.b) {
		switch c := p.b[p.pos]; {
		case c == '"':
			out = append(out, p.b[start:p.pos]...)
			p.pos++
			return string(out), nil
		case c < ' ':
			return "", p.fail("a control character in a string")
		case c == '\\':
			out = append(out, p.b[start:p.pos]...)
			p.pos++
			r, err := p.escape()
			if err != nil {
				return "", err
			}
			out = utf8.AppendRune(out, r)
			start = p.pos
		case c < utf8.RuneSelf:
			p.pos++
		default:
			r, size := utf8.DecodeRune(p.b[p.pos:])
			if r == utf8.RuneError && size == 1 {
				return "", p.fail("bad UTF-8")
			}
			p.pos += size
		}
	}
	return "", p.fail("a string without end")
}

func (p *parser) escape() (rune, error) {
	if p.pos == len(p.b) {
		return 0, p.fail("a string without end")
	}
	c := p.b[p.pos]
	if i := strings.IndexByte(`"\/bfnrt`, c); i >= 0 {
		p.pos++
		return rune("\"\\/\b\f\n\r\t"[i]), nil
	}
	if c != 'u' {
		return 0, p.fail("an unknown escape")
	}
	r, ok := p.hex()
	switch {
	case !ok:
		return 0, p.fail("an unknown escape")
	case r < 0xd800 || r > 0xdfff:
		return r, nil
	case r < 0xdc00 && p.pos+1 < len(p.b) && p.b[p.pos] == '\\':
		p.pos++
		if low, ok := p.hex(); ok && low >= 0xdc00 && low <= 0xdfff {
			return (r-0xd800)<<10 | (low - 0xdc00) + 0x10000, nil
		}
	}
	return 0, p.fail("half a surrogate pair")
}

// hex takes "u" and four hexadecimal digits.
func (p *parser) hex() (rune, bool) {
	if p.pos+5 > len(p.b) || p.b[p.pos] != 'u' {
		return 0, false
	}
	v, err := strconv.ParseUint(string(p.b[p.pos+1:p.pos+5]), 16, 16)
	p.pos += 5
	return rune(v), err == nil
}
