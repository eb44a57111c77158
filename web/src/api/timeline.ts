// SPDX-License-Identifier: Apache-2.0

// Numbers in the timeline's columns: package profile writes them (timeline.go and its neighbours).
import { operatorKinds } from './types'

export const phases = ['', 'prefill', 'decode', 'encode'] as const

/** Channels of a thread's bins: the kinds of operators, then these. */
export const chanWait = operatorKinds.length
export const chanOff = operatorKinds.length + 1
export const threadChannels = operatorKinds.length + 2
/** Of a CPU's: the engine's threads, others, not seen. */
export const cpuChannels = 3

/** States of a thread in Perfetto's words: Running, then why it is on no CPU (profile.StatePreempted and following). */
export const states = [
  'Running',
  'Runnable (Preempted)',
  'Runnable',
  'Sleeping',
  'Uninterruptible Sleep (mostly disk)',
] as const
