// Package ibid makes side effects happen once: a retried request, a
// redelivered message or a restarted process runs no work again, and every
// retry gets the first answer.
package ibid
