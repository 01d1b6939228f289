// The time, for ages that count on.
import { useEffect, useState } from "preact/hooks";

export function useNow(milliseconds: number): number {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), milliseconds);
    return () => clearInterval(timer);
  }, []);
  return now;
}
