package bench

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"
)

// usage is what a process has used since its start.
type usage struct {
	cpu     time.Duration
	written int64
}

// tick is the unit of /proc/PID/stat, USER_HZ, which is 100 wherever Go runs on Linux.
const tick = 10 * time.Millisecond

// usageOf reads it from /proc; nothing is known where there is none.
func usageOf(pid int) (usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return usage{}, err
	}
	io, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return usage{}, err
	}
	cpu, err := cpuOf(stat)
	if err != nil {
		return usage{}, err
	}
	written, err := writtenOf(io)
	return usage{cpu: cpu, written: written}, err
}

var errFormat = errors.New("not as proc(5) says")

// cpuOf reads user and system time, the 14th and 15th field. The second is the
// command's name, which may hold spaces and brackets.
func cpuOf(stat []byte) (time.Duration, error) {
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return 0, errFormat
	}
	fields := bytes.Fields(stat[end+1:])
	if len(fields) < 13 {
		return 0, errFormat
	}
	user, err1 := strconv.ParseInt(string(fields[11]), 10, 64)
	system, err2 := strconv.ParseInt(string(fields[12]), 10, 64)
	return time.Duration(user+system) * tick, errors.Join(err1, err2)
}

// writtenOf reads what was sent to disk.
func writtenOf(io []byte) (int64, error) {
	for line := range bytes.Lines(io) {
		if value, ok := bytes.CutPrefix(line, []byte("write_bytes: ")); ok {
			return strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64)
		}
	}
	return 0, errFormat
}

// memoryOf reads what of a process is resident, and the most that ever was.
func memoryOf(pid int) (Memory, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Memory{}, err
	}
	return residentOf(status)
}

func residentOf(status []byte) (Memory, error) {
	now, err1 := kibibytesOf(status, "VmRSS:")
	peak, err2 := kibibytesOf(status, "VmHWM:")
	return Memory{Now: now, Peak: peak}, errors.Join(err1, err2)
}

// kibibytesOf gives in bytes what a line says in kB.
func kibibytesOf(status []byte, name string) (int64, error) {
	for line := range bytes.Lines(status) {
		fields := bytes.Fields(line)
		if len(fields) == 3 && string(fields[0]) == name && string(fields[2]) == "kB" {
			kib, err := strconv.ParseInt(string(fields[1]), 10, 64)
			return kib << 10, err
		}
	}
	return 0, errFormat
}
