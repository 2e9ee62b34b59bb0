// Package power simulates power cuts of the disk under Plant Store, and checks the store on the disk afterwards.
//
// The disk is an image in memory. FUSE serves it to a loop device with ext4, so the harness records every write and
// every flush of the kernel in order, while the program runs under load. A cut at a position of that log leaves all
// writes before the last flush, and a random part of the writes after it.
//
//	go test -count=1 ./power                              the short form
//	go test -count=1 -timeout 0 -v ./power -long          10,000 cuts
//	go test -count=1 -v ./power -seed 7 -index 123        repeat the cut with that number
//	go test -count=1 -v ./power -kept DIRECTORY           check the saved image of a fault again
//
// Seed and index determine the load and the random choices, but not the timing: each run has another log. The harness
// therefore saves an image with a fault, together with its expected content.
//
// The tests need root, /dev/fuse and loop devices. They are skipped without these, and fail under CI=true.
package power
