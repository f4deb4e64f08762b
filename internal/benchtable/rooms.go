package main

import "fmt"

// rooms are the tables of docs/performance.md, in its order. Targets are those
// that the project set itself before anything was measured.
var rooms = []room{
	{"http", httpRows()},
	{"http-redis", []row{
		{"first run", "the bare handler", 0.4, 0, redisHTTP, metric("BenchmarkHTTP/first/bare", "ratio", "lowest", "highest")},
		{"first run", "a handler that sends two SETs", 0.8, 0, redisHTTP, metric("BenchmarkHTTP/first/two-SETs", "ratio", "lowest", "highest")},
		{"replay", "the bare handler", 0.5, 0, redisHTTP, metric("BenchmarkHTTP/replay/bare", "ratio", "lowest", "highest")},
		{"replay", "a handler that sends GET", 0.85, 0, redisHTTP, metric("BenchmarkHTTP/replay/GET", "ratio", "lowest", "highest")},
	}},
	{"memory", []row{
		{"bytes of a record of 300 bytes, one million of them", "the payload: key and encoded record", 0, 1.4, million, metric("BenchmarkMillion", "ratio", "", "")},
		{"milliseconds of a full collection then", "–", 0, 0, million, metric("BenchmarkMillion", "gc-ms", "", "")},
		{"nanoseconds of a first run, one caller", "–", 0, 0, memoryCalls, metric("BenchmarkFirst", "ns/op", "", "")},
		{"nanoseconds of a replay, a caller per processor", "–", 0, 0, memoryCalls, metric("BenchmarkReplay", "ns/op", "", "")},
	}},
	{"redis", redisRows()},
	{"postgres", postgresRows()},
	{"mariadb", mariadbRows()},
	{"sqlite", []row{
		{"first run, 64 callers, synchronous FULL", "the same with one commit per call", 5, 0, sqliteGroup, metric("BenchmarkSQLiteGroupCommit", "ratio", "ratio-min", "ratio-max")},
		{"first run, 64 callers, synchronous FULL", "a raw log of as many bytes, grouped fdatasync", 0.25, 0, sqliteLimit, metric("BenchmarkSQLiteLimit/log/callers=64", "ratio", "lowest", "highest")},
		{"first run, 1 caller, synchronous FULL", "the same without grouping (MaxBatch 1)", 0.95, 0, sqliteLimit, metric("BenchmarkSQLiteLimit/single/callers=1", "ratio", "lowest", "highest")},
		{"microseconds of one fdatasync beside the first row (under 100 that row says little)", "–", 0, 0, sqliteGroup, metric("BenchmarkSQLiteGroupCommit", "us/fdatasync", "", "")},
		{"microseconds of a replay, 64 callers", "–", 0, 0, sqliteReplay, metric("BenchmarkSQLiteReplay", "µs/op", "", "")},
	}},
	{"transactions", transactionRows()},
	{"client", []row{
		{"allocations of a request that succeeds at once and has its key", "the base transport", 0, 8, clientAllocations, difference(`(\d+) allocations, (\d+) without ibidclient`)},
		{"rate, 64 callers, loopback, a handler that does nothing", "the base transport", 0, 0, clientRate, metric("BenchmarkRate/empty", "ratio", "ratio-p25", "ratio-p75")},
		{"rate, 64 callers, loopback, a handler that takes 5 ms", "the base transport", 0.98, 0, clientRate, metric("BenchmarkRate/5ms", "ratio", "ratio-p25", "ratio-p75")},
	}},
	{"messages", []row{
		{"transactional inbox, 1 consumer", "the handler's own transaction", 0.85, 0, inbox, metric("BenchmarkInboxPostgres/consumers=1", "tx/plain", "", "")},
		{"transactional inbox, 64 consumers", "the handler's own transaction", 0.7, 0, inbox, metric("BenchmarkInboxPostgres/consumers=64", "tx/plain", "", "")},
		{"mark in the handler's transaction, 1 consumer", "the same without", 0.85, 0, inbox, metric("BenchmarkInboxPostgres/consumers=1", "mark/plain", "", "")},
		{"mark in the handler's transaction, 64 consumers", "the same without", 0.7, 0, inbox, metric("BenchmarkInboxPostgres/consumers=64", "mark/plain", "", "")},
		{"marks of 16 messages in one transaction, 1 consumer", "the same without", 0, 0, inbox, metric("BenchmarkInboxPostgres/consumers=1", "batch/plain-batch", "", "")},
		{"marks of 16 messages in one transaction, 64 consumers", "the same without", 0, 0, inbox, metric("BenchmarkInboxPostgres/consumers=64", "batch/plain-batch", "", "")},
	}},
}

var (
	httpAllocations   = command{"", "-count 3 -v -run Budget ./ibidhttp"}
	httpLoopback      = command{"", "-run '^$' -bench Loopback -benchtime 1x ./ibidhttp"}
	million           = command{"", "-run '^$' -bench Million -benchtime 1x -count 3 ./memstore"}
	memoryCalls       = command{"", "-run '^$' -bench 'First|Replay' -count 5 -benchtime 300ms ./memstore"}
	redisRates        = command{"internal/integration/redis", "-run '^$' -bench 'FirstRun|Replay' -benchtime 1x ."}
	redisAllocations  = command{"internal/integration/redis", "-count 3 -v -run Allocations ."}
	redisBytes        = command{"internal/integration/redis", "-run '^$' -bench BytesAtRest -benchtime 1x ."}
	postgresRates     = command{"internal/integration", "-count 1 -v -run TestRates ./pg -rounds 5"}
	sqliteGroup       = command{"internal/integration", "-run '^$' -bench GroupCommit -benchtime 9x ./sqlite"}
	sqliteLimit       = command{"internal/integration", "-run '^$' -bench SQLiteLimit -benchtime 9x ./sqlite"}
	mariadbRates      = command{"internal/integration", "-run '^$' -bench MariaDB -benchtime 5x ./mysql"}
	redisHTTP         = command{"internal/integration/redis", "-run '^$' -bench BenchmarkHTTP -benchtime 1x ."}
	sqliteReplay      = command{"internal/integration", "-run '^$' -bench SQLiteReplay -benchtime 300ms -count 5 ./sqlite"}
	transactions      = command{"internal/integration", "-run '^$' -bench PostgresTransaction -benchtime 10x -count 5 ./tx"}
	clientAllocations = command{"", "-count 3 -v -run TestAllocations ./ibidclient"}
	clientRate        = command{"", "-run '^$' -bench Rate -benchtime 100x ./ibidclient"}
	inbox             = command{"internal/integration/messages", "-run '^$' -bench Inbox -benchtime 5x -count 5 ."}
)

func httpRows() []row {
	loopback := func(name string) reader {
		return metric("BenchmarkMiddlewareLoopback", name+"/bare", name+"-p25", name+"-p75")
	}
	return []row{
		{"allocations of a first run", "the bare handler", 0, 12, httpAllocations, logged(`above the bare handler: first (\S+)`)},
		{"allocations of a replay", "the bare handler", 0, 8, httpAllocations, logged(`above the bare handler: .* replay (\S+)`)},
		{"rate of first runs over memstore, 64 callers, loopback", "the bare handler", 0.82, 0, httpLoopback, loopback("first")},
		{"rate of replays over memstore, 64 callers, loopback", "the bare handler", 0.9, 0, httpLoopback, loopback("replay")},
		{"the same first runs, per second of processor time", "the bare handler", 0, 0, httpLoopback, loopback("first-cpu")},
		{"the same replays, per second of processor time", "the bare handler", 0, 0, httpLoopback, loopback("replay-cpu")},
	}
}

func redisRows() (rows []row) {
	add := func(what, against string, atLeast float64, name string) {
		rows = append(rows, row{what, against, atLeast, 0, redisRates, metric(name, "ratio", "lowest", "highest")})
	}
	for _, lib := range []struct {
		name          string
		first, replay float64
	}{{"rueidis", 0.85, 0.9}, {"go-redis", 0.8, 0.9}} {
		for _, callers := range []int{1, 16, 64, 256} {
			first, replay := lib.first, lib.replay
			if callers < 64 {
				first, replay = 0, 0
			}
			add(fmt.Sprintf("first run, %s, %s", lib.name, count(callers, "caller")), "two SETs, same client", first, fmt.Sprintf("BenchmarkFirstRun/%s/callers=%d", lib.name, callers))
			add(fmt.Sprintf("replay, %s, %s", lib.name, count(callers, "caller")), "GET, same client", replay, fmt.Sprintf("BenchmarkReplay/%s/callers=%d", lib.name, callers))
		}
	}
	for _, callers := range []int{64, 256} {
		add(fmt.Sprintf("first run, rueidis, %d callers", callers), "two SETs on a connection per caller, no client library", 1.2, fmt.Sprintf("BenchmarkFirstRunAgainstRaw/callers=%d", callers))
	}
	for _, lib := range []struct {
		name string
		most float64
	}{{"rueidis", 40}, {"go-redis", 40}} {
		rows = append(rows,
			row{"allocations of a first run, " + lib.name, "–", 0, lib.most, redisAllocations, logged(lib.name + `: a first run: (\S+) allocations`)},
			row{"allocations of a replay, " + lib.name, "–", 0, 25, redisAllocations, logged(lib.name + `: a replay: (\S+) allocations`)})
	}
	return append(rows, row{"bytes of a record of 300 bytes, one million of them", "the payload: key and encoded record", 0, 1.4, redisBytes, metric("BenchmarkBytesAtRest", "of-payload", "", "")})
}

func postgresRows() (rows []row) {
	for _, callers := range []int{1, 16, 64} {
		first := 0.8
		if callers == 64 {
			first = 1.6
		}
		rows = append(rows,
			row{"first run, pgxstore, " + count(callers, "caller"), "two plain commits, same pool", first, 0, postgresRates, logged(fmt.Sprintf(`first run / two commits +%d callers: (\S+) \(([\d.]+)–([\d.]+)\)`, callers))},
			row{"replay, pgxstore, " + count(callers, "caller"), "SELECT by primary key, same pool", 0.65, 0, postgresRates, logged(fmt.Sprintf(`replay / select +%d callers: (\S+) \(([\d.]+)–([\d.]+)\)`, callers))})
	}
	return rows
}

func mariadbRows() (rows []row) {
	for _, callers := range []int{1, 16, 64} {
		for _, way := range []struct{ name, what, against string }{
			{"first", "first run, sqlstore on MariaDB, ", "two plain commits, same pool"},
			{"replay", "replay, sqlstore on MariaDB, ", "SELECT by primary key, same pool"},
		} {
			rows = append(rows, row{way.what + count(callers, "caller"), way.against, 0, 0, mariadbRates, metric(fmt.Sprintf("BenchmarkMariaDB/%s/callers=%d", way.name, callers), "ratio", "lowest", "highest")})
		}
	}
	return rows
}

func transactionRows() (rows []row) {
	for _, callers := range []int{1, 16, 64} {
		name := fmt.Sprintf("BenchmarkPostgresTransaction/%d_callers", callers)
		for _, limit := range []struct {
			name, unit string
			atLeast    float64
		}{
			{"the business transaction with one more insert", "of-plus", 0.85},
			{"the same, its last two statements in one round trip", "of-plus-pipelined", 0},
			{"the bare business transaction", "of-bare", 0},
		} {
			rows = append(rows, row{"business write and record, PostgreSQL, " + count(callers, "caller"), limit.name, limit.atLeast, 0, transactions, metric(name, limit.unit, "", "")})
		}
	}
	return rows
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
