package ibidhttp

// Fingerprint says what makes two requests the same, besides method, path,
// query, Content-Type and Content-Encoding.
type Fingerprint struct {
	// Headers are request headers that count too.
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
	// implies CanonicalJSON.
	Exclude []string
	// Multipart compares multipart/form-data bodies by their parts, and leaves
	// out the boundary, which clients choose anew for every attempt.
	Multipart bool
}
