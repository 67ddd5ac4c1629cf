/** Numbers as the reader sees them. */

/** `0.4 s`, `31 s`, `2 min 5 s`, `1 h 4 min`. */
export function duration(seconds: number): string {
  if (seconds < 9.95) {
    return `${seconds.toFixed(1)} s`;
  }
  return clockTime(seconds);
}

/** Whole seconds, for a clock that ticks. */
export function clockTime(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) {
    return `${whole} s`;
  }
  const minutes = Math.floor(whole / 60);
  return minutes < 60 ? `${minutes} min ${whole % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** `850`, `18.4k`, `1.2M`. */
export function tokens(count: number): string {
  if (count < 1000) {
    return String(count);
  }
  return count < 999_950 ? `${(count / 1000).toFixed(1)}k` : `${(count / 1_000_000).toFixed(1)}M`;
}

export function grouped(count: number): string {
  return count.toLocaleString('en-US');
}

export function plural(count: number, noun: string): string {
  return `${count} ${noun}${count === 1 ? '' : 's'}`;
}
