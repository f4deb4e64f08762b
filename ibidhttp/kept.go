package ibidhttp

import "net/http"

// KeepDefault keeps every answer except 401, 403, 408, 425, 429 and 5xx, which say
// that the request was not carried out, or not yet.
func KeepDefault(status int, _ http.Header) bool {
	return keepStarted(status, nil) && status < 500
}

// KeepAll keeps every answer, server errors included.
func KeepAll(int, http.Header) bool { return true }

// KeepSuccess keeps 2xx and 3xx: every refusal frees the key.
func KeepSuccess(status int, _ http.Header) bool { return status < 400 }

// keepStarted keeps every answer except those that say that the request was
// turned away before it was carried out: server errors are kept.
func keepStarted(status int, _ http.Header) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestTimeout,
		http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return true
}
