// Package power cuts the power of a disk on which Plant Store works, and looks
// at what is left.
//
// The disk is an image in memory, served by FUSE to a loop device with ext4 on
// it, so that every write and every flush of the kernel is seen, in order. The
// program runs on it under load. A cut at a point of that log leaves what came
// before the last flush, and of what was written after it, a random part.
//
//	go test -count=1 ./power                              the short form
//	go test -count=1 -timeout 0 -v ./power -long          10,000 cuts
//	go test -count=1 -v ./power -seed 7 -index 123        the cut with that number again
//	go test -count=1 -v ./power -kept DIRECTORY           an image that was kept of a fault
//
// Seed and index give the same load and the same choices, but not the same
// moments: the log of another run is another one. That is why an image that
// shows a fault is kept, with what must be in it.
//
// It needs root, /dev/fuse and loop devices. Without them it is skipped,
// unless the environment has CI=true.
package power
