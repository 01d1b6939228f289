"""
The Grafana dashboards of `deploy/monitoring`: `panels` says what they show, `grafana` writes it in Grafana's format.

    make monitoring    # writes deploy/monitoring/dashboards and the rules for a Prometheus without the Operator
    make dashboards    # a real Prometheus scrapes Dovetail at work, and every query must return data (`scrape`)
"""
