package ibidhttp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"

	"github.com/ibid-go/ibid/ibidhttp/internal/jsonbody"
)

// Fingerprint says what makes two requests the same, besides method, path,
// query, Content-Type and Content-Encoding.
type Fingerprint struct {
	// Headers are request headers that count too. Default: none.
	Headers []string
	// CanonicalJSON compares JSON bodies by content: the order of members,
	// white space and the way characters are escaped do not count. Number
	// literals count as written: 1.0 is not 1. Bodies with duplicate members or
	// bad UTF-8 are refused (400). Default false: raw bytes.
	CanonicalJSON bool
	// Include are JSON pointers (RFC 6901) to the only parts of a JSON body
	// that count. It implies CanonicalJSON. Default nil: all.
	Include []string
	// Exclude are JSON pointers to parts of a JSON body that do not count. It
	// implies CanonicalJSON. Default nil: none.
	Exclude []string
	// Multipart compares multipart/form-data bodies by their parts, and leaves
	// out the boundary, which clients choose anew for every attempt. Default
	// false: raw bytes.
	Multipart bool
}

// printer makes fingerprints as a Fingerprint says.
type printer struct {
	headers          []string
	json             bool
	include, exclude []jsonbody.Pointer
	multipart        bool
}

func (f *Fingerprint) printer() (p printer, err error) {
	p.json = f.CanonicalJSON || f.Include != nil || f.Exclude != nil
	p.multipart = f.Multipart
	for _, name := range f.Headers {
		if !validHeaderName(name) {
			return p, invalid("Options.Fingerprint.Headers: %q is no header name", name)
		}
		p.headers = append(p.headers, http.CanonicalHeaderKey(name))
	}
	if p.include, err = pointers("Include", f.Include); err != nil {
		return p, err
	}
	p.exclude, err = pointers("Exclude", f.Exclude)
	return p, err
}

func pointers(field string, list []string) (out []jsonbody.Pointer, err error) {
	for _, s := range list {
		p, err := jsonbody.ParsePointer(s)
		if err != nil {
			return nil, invalid("Options.Fingerprint.%s: %v", field, err)
		}
		out = append(out, p)
	}
	return out, nil
}

// How a body was read is part of the fingerprint: bodies read in different ways
// are never the same.
const (
	bodyRaw       = 'r'
	bodyCanonical = 'j'
	bodyParts     = 'm'
)

// append appends to dst what makes r this request, except for the body if it
// is returned: it then belongs after what was appended. The fingerprint's algorithm is
// versioned by the first byte.
func (p *printer) append(dst []byte, r *http.Request, path string, body []byte) (_, rest []byte, err error) {
	contentType := oneLine(r.Header["Content-Type"])
	dst = append(dst, 1)
	dst = appendPart(dst, r.Method)
	dst = appendPart(dst, path)
	dst = appendPart(dst, r.URL.RawPath)
	dst = appendPart(dst, r.URL.RawQuery)
	dst = appendPart(dst, oneLine(r.Header["Content-Encoding"]))
	for _, name := range p.headers {
		values := r.Header[name]
		dst = binary.AppendUvarint(dst, uint64(len(values)))
		for _, v := range values {
			dst = appendPart(dst, v)
		}
	}
	switch {
	case p.json && isJSON(contentType):
		dst = appendPart(dst, contentType)
		dst = append(dst, bodyCanonical)
		if len(bytes.TrimSpace(body)) == 0 {
			return dst, nil, nil
		}
		dst, err = jsonbody.AppendCanonical(dst, body, p.include, p.exclude)
		return dst, nil, err
	case p.multipart && strings.HasPrefix(strings.ToLower(contentType), "multipart/form-data"):
		dst = append(dst, bodyParts)
		dst, err = appendParts(dst, contentType, body)
		return dst, nil, err
	}
	dst = appendPart(dst, contentType)
	return append(dst, bodyRaw), body, nil
}

// appendPart appends s, preceded by its length.
func appendPart(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

// oneLine returns the lines of a header as one, joined by a byte that no line
// has.
func oneLine(lines []string) string {
	switch len(lines) {
	case 0:
		return ""
	case 1:
		return lines[0]
	}
	return strings.Join(lines, "\n")
}

// isJSON reports whether a Content-Type is application/json or ends in +json.
func isJSON(contentType string) bool {
	t, _, _ := strings.Cut(contentType, ";")
	t = strings.TrimSpace(t)
	return strings.EqualFold(t, "application/json") ||
		len(t) > 5 && strings.EqualFold(t[len(t)-5:], "+json")
}

var (
	errNoBoundary = errors.New("the Content-Type of the multipart body names no boundary")
	errParts      = errors.New("the multipart body ends early or does not parse")
)

// appendParts appends the parts of a multipart body, in their order.
func appendParts(dst []byte, contentType string, body []byte) ([]byte, error) {
	_, params, err := mime.ParseMediaType(contentType)
	boundary := params["boundary"]
	if err != nil || boundary == "" {
		return dst, errNoBoundary
	}
	if !bytes.Contains(body, []byte("--"+boundary+"--")) {
		return dst, errParts // the reader would take a body that is cut short for whole
	}
	parts := multipart.NewReader(bytes.NewReader(body), boundary)
	for {
		part, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			return dst, nil
		}
		if err != nil {
			return dst, errParts
		}
		for _, name := range [...]string{"Content-Disposition", "Content-Type", "Content-Transfer-Encoding"} {
			dst = appendPart(dst, oneLine(part.Header[name]))
		}
		content, err := io.ReadAll(part)
		if err != nil {
			return dst, errParts
		}
		dst = appendPart(dst, string(content))
	}
}
