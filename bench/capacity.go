package main

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// The inputs of the plan that are no measurements. docs/explanation/capacity.md explains them; its template repeats
// them.
const (
	planRate       = 20_000 // creates a second
	planServers    = 3      // of two cores; one of them may fail
	machineCores   = 16
	machineMemory  = 64e9 // bytes
	indexShare     = 0.6  // of the memory, for pages of the index
	machineDollars = 477  // a month
	serverDollars  = 60   // a month
	diskDollars    = 0.08 // a GB and month
	diskBytesMax   = 16e12
	copyRate       = 500e6 // bytes a second, of a copy or a restore

	networkSync = time.Millisecond       // of a network disk
	roundTrip   = 500 * time.Microsecond // between two zones of a region
	pageRead    = 500 * time.Microsecond // of a network disk
)

// Measured processor time of a Citus cluster with COPY for a plant, in batches of 32 and 128 plants; see
// docs/explanation/scaling.md.
const (
	citus32  = 83 * time.Microsecond
	citus128 = 34 * time.Microsecond
)

// Sizes of a plant with random ids in bytes; see docs/explanation/scaling.md.
const (
	sqlitePlant   = 73
	postgresRow   = 104
	postgresIndex = 29
)

// costs are the processor times of the model, from measurements.
type costs struct {
	generator, server time.Duration // of a request; server without the engine
	batch, plant      time.Duration // of the database
	sync              time.Duration
	parts, committers int
}

// costsOf returns the costs of an engine with a number of connections. It returns false if a measurement is missing.
func (r *results) costsOf(contender string, connections int64) (c costs, ok bool) {
	floor := r.compared(setShared, floorName, connections)
	server := r.compared(setShared, productName, connections).spread(serverCPU)
	onPostgres := func(connections int64) float64 {
		return r.compared(setShared, productPGName, connections).spread(dbCPU).median
	}
	insert32, insert256 := r.insertMicros(32), r.insertMicros(256)
	if floor.spread(rate).n == 0 || server.n == 0 || onPostgres(64) == 0 || onPostgres(256) == 0 || insert256 == 0 ||
		len(r.machines) == 0 {
		return costs{}, false
	}
	// The floor uses all processors, so the generator has the time that the floor does not use.
	const processors = 2
	c.generator = micros(processors*1e6/floor.spread(rate).median - floor.spread(serverCPU).median)
	c.sync, c.parts, c.committers = micros(r.machines[0].FsyncMicros), 1, 1
	perPlant := (insert256 - insert32) / (256 - 32)
	perBatch := max(0, insert32-32*perPlant-r.machines[0].FsyncMicros)
	switch contender {
	case productName:
		c.plant, c.batch = micros(perPlant), micros(perBatch)
		c.server = micros(server.median - perPlant - perBatch/float64(connections/2))
		return c, true
	case productPGName:
		// A batch has half of the clients, so two measurements give the time of a batch and of a plant.
		batch := (onPostgres(64) - onPostgres(256)) / (1./32 - 1./128)
		c.batch, c.plant = micros(batch), micros(onPostgres(256)-batch/128)
	case citusName:
		batch := float64(citus32-citus128) / (1./32 - 1./128)
		c.batch, c.plant = time.Duration(batch), citus128-time.Duration(batch/128)
		c.parts, c.sync = 2, 3*c.sync // prepare, the record of the coordinator, commit
	}
	c.server = micros(r.compared(setShared, productPGName, connections).spread(serverCPU).median)
	c.committers = 3
	return c, true
}

func micros(v float64) time.Duration { return time.Duration(v * float64(time.Microsecond)) }

// insertMicros returns the median time of a commit of so many plants with random ids, from the micro benchmarks.
func (r *results) insertMicros(plants int) float64 {
	var values []float64
	prefix := fmt.Sprintf("BenchmarkInsert/random/plants=%d-", plants)
	for line := range strings.Lines(r.microRuns) {
		if fields := strings.Fields(line); len(fields) > 2 && strings.HasPrefix(fields[0], prefix) {
			if nanos, err := strconv.ParseFloat(fields[2], 64); err == nil {
				values = append(values, nanos/1e3)
			}
		}
	}
	return spreadOf(values).median
}

// modelCheck compares the model with the comparison, which it does not use except for processor times.
func (r *results) modelCheck() string {
	t := &table{}
	t.row("engine", "connections", "creates a second, model", "measured", "model ÷ measured", "p50 ms, model", "measured",
		"p99 ms, model", "measured")
	for _, engine := range []string{productName, productPGName, citusName} {
		for _, connections := range []int64{64, 256} {
			c, ok := r.costsOf(engine, connections)
			if !ok {
				return notMeasured
			}
			got := simulate(model{
				cores: 2, server: c.generator + c.server, parts: c.parts, batch: c.batch, plant: c.plant,
				committers: c.committers, sync: c.sync, clients: int(connections),
			})
			runs := r.compared(setShared, engine, connections)
			quotient := "–"
			if measured := runs.spread(rate); measured.n > 0 {
				quotient = twoDecimals(got.perSecond / measured.median)
			}
			t.row(contenderNamed(engine).title, fmt.Sprint(connections), whole(got.perSecond), runs.spread(rate).text(whole),
				quotient, millis(float64(got.p50.Microseconds())), runs.spread(p50).text(millis),
				millis(float64(got.p99.Microseconds())), runs.spread(p99).text(millis))
		}
	}
	return t.String()
}

// design is an engine in the plan.
type design struct {
	title      string
	contender  string  // whose costs it has
	factor     float64 // of the processor time of the database
	row, index float64 // bytes of a plant
	copies     int
	shards     bool // over many machines
	sync       time.Duration
	failover   string
}

var designs = []design{
	{
		title: "SQLite", contender: productName, factor: 1, row: sqlitePlant, index: sqlitePlant, copies: 1,
		sync: networkSync,
	},
	{
		title: "PostgreSQL", contender: productPGName, factor: 1, row: postgresRow, index: postgresIndex, copies: 3,
		sync: networkSync + roundTrip, failover: "30 s",
	},
	{
		title: "Citus", contender: citusName, factor: 1, row: postgresRow, index: postgresIndex, copies: 3, shards: true,
		sync: 3 * (networkSync + roundTrip), failover: "30 s",
	},
	{
		title: "CockroachDB or YugabyteDB", contender: citusName, factor: 2, row: postgresRow, index: postgresIndex,
		copies: 3, shards: true, sync: 2 * (networkSync + roundTrip), failover: "10 s",
	},
}

// planTable has the machines, cost, latency and recovery of each engine for several numbers of plants.
func (r *results) planTable() string {
	t := &table{}
	t.row("billion plants", "engine", "machines", "dollars a month", "creates a second", "p50 ms", "p99 ms", "failover",
		"copy of a machine")
	for _, plants := range []float64{1e9, 1e10, 1e11} {
		for _, d := range designs {
			row, ok := r.plan(d, plants)
			if !ok {
				return notMeasured
			}
			t.row(row...)
		}
	}
	return t.String()
}

// plan returns the row of a design. It returns false if a measurement is missing.
func (r *results) plan(d design, plants float64) (cells []string, ok bool) {
	c, ok := r.costsOf(d.contender, 256)
	if !ok {
		return nil, false
	}
	bytes := plants * (d.row + d.index)
	if d.contender == productName {
		bytes = plants * d.row // the table is the index
	}
	parts := 1
	if d.shards {
		parts = int(math.Ceil(max(plants*d.index/(machineMemory*indexShare), bytes/diskBytesMax)))
	}
	m := model{
		cores: 2, server: c.server, databaseCores: machineCores, parts: parts, committers: c.committers, sync: d.sync,
		batch: time.Duration(float64(c.batch) * d.factor), plant: time.Duration(float64(c.plant) * d.factor),
		rate: planRate / planServers,
	}
	if missing := 1 - machineMemory*indexShare*float64(parts)/(plants*d.index); missing > 0 {
		m.plant += time.Duration(missing * float64(pageRead)) // a create reads the page of its id
	}
	machines, servers := d.copies*parts, planServers
	switch {
	case d.shards && d.contender == citusName && d.factor == 1:
		machines += d.copies // of the coordinator
	case d.contender == productName:
		servers, m.cores, m.rate = 0, machineCores, planRate // the server is on the machine
	}
	disk := 2 * bytes * float64(d.copies) / 1e9 // half full
	dollars := float64(machines)*machineDollars + float64(servers)*serverDollars + disk*diskDollars
	committers := float64(m.committers * max(1, servers) * parts)
	latency := []string{"–", "–"}
	most := committers / m.plant.Seconds() // the plants of a batch are stored one after the other
	if most >= planRate {
		got := simulate(m)
		latency = []string{millis(float64(got.p50.Microseconds())), millis(float64(got.p99.Microseconds()))}
	}
	reached := whole(planRate)
	if most < planRate {
		reached = whole(math.Round(most/100) * 100)
	}
	restore := minutes(bytes / float64(parts) / copyRate)
	return []string{
		whole(plants / 1e9), d.title, fmt.Sprint(machines + servers), whole(dollars), reached, latency[0], latency[1],
		cmp.Or(d.failover, restore), restore,
	}, true
}

// minutes formats seconds in hours and minutes.
func minutes(seconds float64) string {
	n := int(math.Ceil(seconds / 60))
	if n < 60 {
		return fmt.Sprintf("%d min", n)
	}
	return fmt.Sprintf("%d h %d min", n/60, n%60)
}
