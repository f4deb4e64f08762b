package payments

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// maxBody bounds the body of a request, in bytes.
const maxBody = 64 << 10

// read decodes the body of r into into, has it checked, and returns the faults
// that the request asks for.
func read(r *http.Request, into any, check func() error) (faults, error) {
	if err := decode(r, into); err != nil {
		return faults{}, err
	}
	if err := check(); err != nil {
		return faults{}, err
	}
	return parseFaults(r.Header)
}

// decode reads the body of r, which must be one JSON object with no fields but
// those of into.
func decode(r *http.Request, into any) error {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
	if err != nil {
		return fmt.Errorf("read the body: %w", err)
	}
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.DisallowUnknownFields()
	err = d.Decode(into)
	var mistyped *json.UnmarshalTypeError
	switch {
	case errors.As(err, &mistyped) && mistyped.Field != "":
		return fmt.Errorf("%s cannot be the JSON %s", mistyped.Field, mistyped.Value)
	case err != nil:
		return fmt.Errorf("the body must be one JSON object: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("the body must be one JSON object: there is more after it")
	}
	return nil
}
