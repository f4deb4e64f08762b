package main

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// room is what one table shows.
type room struct {
	name string
	rows []row
}

// row compares one thing with its limit, measured in the same run.
type row struct {
	what, against string
	atLeast       float64 // the target; 0 has none
	atMost        float64 // the target, where less is better; 0 has none
	command       command
	read          reader
}

// measured is a median and how far it spread.
type measured struct{ mid, low, high float64 }

// reader finds a row's number in the output of its command.
type reader func(output string) (measured, bool)

func (r room) commands() (all []command) {
	for _, row := range r.rows {
		if !slices.Contains(all, row.command) {
			all = append(all, row.command)
		}
	}
	return all
}

func (r room) table(outputs map[command]string) string {
	var b strings.Builder
	b.WriteString("| what | compared with | target | measured (spread) | |\n|---|---|---|---|---|\n")
	for _, row := range r.rows {
		m, ok := row.read(outputs[row.command])
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", row.what, row.against, row.target(), m.text(ok), row.verdict(m, ok))
	}
	b.WriteString("\n```sh\n")
	for _, c := range r.commands() {
		b.WriteString(c.String() + "\n")
	}
	b.WriteString("```\n")
	return b.String()
}

func (r row) target() string {
	switch {
	case r.atLeast > 0:
		return "≥ " + number(r.atLeast)
	case r.atMost > 0:
		return "≤ " + number(r.atMost)
	default:
		return "–"
	}
}

// verdict says whether the target is met, and whether the spread allows to say so.
func (r row) verdict(m measured, ok bool) string {
	enough := func(v float64) bool { return r.atLeast > 0 && v >= r.atLeast || r.atMost > 0 && v <= r.atMost }
	worst, best := m.low, m.high
	if r.atMost > 0 {
		worst, best = best, worst
	}
	switch {
	case !ok || r.atLeast == 0 && r.atMost == 0:
		return ""
	case enough(worst):
		return "met"
	case enough(m.mid):
		return "met; the spread reaches below"
	case enough(best):
		return "**missed**; the spread reaches it"
	default:
		return "**missed**"
	}
}

func (m measured) text(ok bool) string {
	switch {
	case !ok:
		return "not measured"
	case m.low == m.mid && m.high == m.mid:
		return number(m.mid)
	default:
		return fmt.Sprintf("%s (%s–%s)", number(m.mid), number(m.low), number(m.high))
	}
}

// number prints three digits where there are no more before the point.
func number(v float64) string {
	if v >= 100 || v == math.Trunc(v) {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// metric reads a benchmark's units: its median, its lowest and its highest.
// Without the last two the spread is that of the repeated runs (-count).
func metric(name, mid, low, high string) reader {
	return func(output string) (measured, bool) {
		mids := units(output, name, mid)
		lows, highs := mids, mids
		if low != "" {
			lows, highs = units(output, name, low), units(output, name, high)
		}
		return spread(mids, lows, highs)
	}
}

// logged reads lines that a test prints: the pattern's first group is the median,
// the second and third, if it has them, the spread.
func logged(pattern string) reader {
	re := regexp.MustCompile(pattern)
	return func(output string) (measured, bool) {
		var mids, lows, highs []float64
		for _, m := range re.FindAllStringSubmatch(output, -1) {
			v := make([]float64, 3)
			for i := range v {
				v[i], _ = strconv.ParseFloat(m[min(i+1, len(m)-1)], 64)
			}
			if len(m) < 4 {
				v[1], v[2] = v[0], v[0]
			}
			mids, lows, highs = append(mids, v[0]), append(lows, v[1]), append(highs, v[2])
		}
		return spread(mids, lows, highs)
	}
}

func spread(mids, lows, highs []float64) (measured, bool) {
	if len(mids) == 0 || len(lows) == 0 || len(highs) == 0 {
		return measured{}, false
	}
	mids = slices.Sorted(slices.Values(mids))
	return measured{mids[len(mids)/2], slices.Min(lows), slices.Max(highs)}, true
}

// difference reads lines that a test prints: the first group less the second.
func difference(pattern string) reader {
	re := regexp.MustCompile(pattern)
	return func(output string) (measured, bool) {
		var values []float64
		for _, m := range re.FindAllStringSubmatch(output, -1) {
			with, _ := strconv.ParseFloat(m[1], 64)
			without, _ := strconv.ParseFloat(m[2], 64)
			values = append(values, with-without)
		}
		return spread(values, values, values)
	}
}

// units returns the values that a benchmark reports in a unit, one for each run.
func units(output, name, unit string) (values []float64) {
	for line := range strings.Lines(output) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.TrimSuffix(fields[0], suffix(fields[0])) != name {
			continue
		}
		for i := 2; i+1 < len(fields); i += 2 {
			v, err := strconv.ParseFloat(fields[i], 64)
			switch {
			case err != nil:
			case fields[i+1] == unit:
				values = append(values, v)
			case unit == "µs/op" && fields[i+1] == "ns/op":
				values = append(values, v/1000)
			}
		}
	}
	return values
}

// suffix is the -N of GOMAXPROCS, which the go command puts behind a name.
func suffix(name string) string {
	at := strings.LastIndexByte(name, '-')
	if at < 0 {
		return ""
	}
	if _, err := strconv.Atoi(name[at+1:]); err != nil {
		return ""
	}
	return name[at:]
}
