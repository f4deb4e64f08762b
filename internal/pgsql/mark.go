package pgsql

import (
	"regexp"
	"strconv"
	"strings"
)

var parameter = regexp.MustCompile(`\$(\d+)`)

// OnlyNew makes of Insert's query one for n rows, whose arguments follow each
// other. Where a row stands it writes nothing; it returns the keys that it
// wrote.
func OnlyNew(insert string, n int) string {
	head, values, _ := strings.Cut(insert, "VALUES ")
	per := 0
	for _, p := range parameter.FindAllStringSubmatch(values, -1) {
		i, _ := strconv.Atoi(p[1]) // digits
		per = max(per, i)
	}
	rows := make([]string, n)
	for row := range rows {
		rows[row] = parameter.ReplaceAllStringFunc(strings.TrimSpace(values), func(p string) string {
			i, _ := strconv.Atoi(p[1:])
			return "$" + strconv.Itoa(row*per+i)
		})
	}
	return head + "VALUES " + strings.Join(rows, ", ") + " ON CONFLICT (key) DO NOTHING RETURNING key"
}
